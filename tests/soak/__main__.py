"""`python -m tests.soak --requests 10000 --seed 1`: one table; ends with 1 where something that must be 0 is not."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence

from tests.soak.soak import STRIKES_PER_10_000, Soak, soak, soak_of_plain_chord


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="the plain chord beside it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    ours = soak(options.requests, options.seed)
    print_soak(ours, as_json=options.json)
    if options.plain:
        for late in (False, True):
            print_soak(
                soak_of_plain_chord(options.requests, options.seed, acks_late=late), as_json=options.json
            )
    return 1 if ours.complaints else 0


def print_soak(one: Soak, *, as_json: bool) -> None:
    print(json.dumps(one.to_wire()) if as_json else table(one), flush=True)


def table(one: Soak) -> str:
    tally = one.tally
    lines = [f"{one.name}: {tally.requests} requests, {tally.ended} ended, in {one.seconds:.0f} s"]
    lines += [f"  {count:7} {status}" for status, count in tally.statuses.most_common()]
    lines += [f"  {count:7} ended by {who}" for who, count in tally.ended_by.most_common()]
    lines += [f"  {count:7} {reason}" for reason, count in tally.reasons.most_common()]
    if tally.overruns_ms:
        late = sum(ms > 0 for ms in tally.overruns_ms)
        lines.append(
            f"  {late:7} after the deadline; p99 {tally.overrun_ms(0.99)} ms, worst {tally.overrun_ms(1)} ms"
        )
    lines += [f"  {count:7} {what}" for what, count in tally.zeros.items()]
    floor = math.floor(STRIKES_PER_10_000 * tally.requests / 10_000)
    lines.append(f"faults inside a request, by step (at least {floor} each)")
    lines += [f"  {count:7} {place}" for place, count in sorted(one.strikes.items())]
    lines += [f"  {count:7} {what}" for what, count in sorted(one.elsewhere.items())]
    lines += [f"WRONG: {complaint}" for complaint in one.complaints[:20]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
