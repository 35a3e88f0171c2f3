"""Break each main guarantee on purpose, by one line, and see its named test fail: `make mutants`.

A mutant is made in a copy of the tree.  A guarantee whose mutant passes is guarded by nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT_S = 180


@dataclass(frozen=True, slots=True)
class Mutant:
    guarantee: str
    file: str
    line: str
    """As it stands in the file, once."""
    instead: str
    test: str

    @property
    def name(self) -> str:
        return self.guarantee.replace(" ", "-")


_SCRIPTS = "tests/integration/ledger/test_scripts.py"
_MISSING = "tests/integration/tasks/test_something_is_missing.py"
_BEFORE = "tests/integration/tasks/test_asked_before.py"

MUTANTS = (
    Mutant(
        "the first terminal write wins",
        "client/chorale_client/scripts/prelude.lua",
        "  if not entry.state then return nil end",
        "  if not entry.state then entry = { head = '\"a\":1', accepted_at = now, fingerprint = '', request = '', answer_ttl = 1000 } end",
        f"{_SCRIPTS}::TestEnding::test_the_first_terminal_write_wins",
    ),
    Mutant(
        "the end and its outbox entry are one script",
        "client/chorale_client/scripts/prelude.lua",
        "  redis.call('XADD', OUTBOX, '*', unpack(fields))",
        "",
        f"{_SCRIPTS}::TestEnding::test_the_end_and_its_outbox_entry_are_one",
    ),
    Mutant(
        "the first answer of a branch wins",
        "ledger/scripts/report.lua",
        "  if e[3] ~= 'failed' or status == 'failed' then return 'duplicate' end",
        "",
        f"{_SCRIPTS}::TestReporting::test_the_first_answer_of_a_branch_wins",
    ),
    Mutant(
        "a branch reported twice counts once",
        "ledger/scripts/report.lua",
        "if e[3] then",
        "if false then",
        f"{_SCRIPTS}::TestReporting::test_a_branch_reported_twice_counts_once",
    ),
    Mutant(
        "what comes after the snapshot changes nothing",
        "ledger/scripts/report.lua",
        "if e[1] ~= 'planned' or not e[2] then return 'closed' end",
        "if not e[2] then return 'closed' end",
        f"{_SCRIPTS}::TestReporting::test_what_comes_after_the_snapshot_changes_nothing",
    ),
    Mutant(
        "a callback that comes too early does nothing",
        "ledger/scripts/join.lua",
        "    if tonumber(e[2]) > 0 and now < tonumber(e[3]) then return { 'early' } end",
        "",
        f"{_SCRIPTS}::TestJoining::test_a_callback_that_comes_too_early_does_nothing",
    ),
    Mutant(
        "only one fusion takes a request",
        "ledger/scripts/join.lua",
        "    if now < tonumber(e[4]) then return { 'taken' } end",
        "",
        f"{_SCRIPTS}::TestJoining::test_only_one_fusion_takes_a_request",
    ),
    Mutant(
        "the sweeper ends what nobody ended",
        "ledger/scripts/sweep.lua",
        "    if now >= end_at then",
        "    if false then",
        f"{_SCRIPTS}::TestSweeping::test_every_request_is_ended_before_its_deadline",
    ),
    Mutant(
        "a deletion stands before every write of the end",
        "client/chorale_client/scripts/prelude.lua",
        "  redis.call('DEL', ENTRY .. id)",
        "  redis.call('SET', RESULT .. id, '')  redis.call('DEL', ENTRY .. id)",
        f"{_SCRIPTS}::TestEnding::test_a_full_redis_can_still_end_requests",
    ),
    Mutant(
        "without a fusion worker the sweeper answers",
        "tasks/sweeper.py",
        '    "end": Sweeper._end,',
        '    "end": Sweeper._pushed,',
        f"{_MISSING}::test_without_a_fusion_worker_the_sweeper_answers",
    ),
    Mutant(
        "a degraded answer is never kept",
        "tasks/ending.py",
        '        if fields["questions"][index]["status"] == Status.COMPLETE',
        "",
        f"{_BEFORE}::test_a_degraded_answer_is_never_kept",
    ),
    Mutant(
        "an answer is not kept where a branch saw another generation",
        "tasks/ending.py",
        "    if plan.generation is None or len(generations) > 1:",
        "    if plan.generation is None:",
        f"{_BEFORE}::test_an_answer_is_not_kept_where_a_branch_searched_another_generation",
    ),
    Mutant(
        "an answer is not kept where the generation rose",
        "tasks/ending.py",
        "        if values and resources.generation(plan.namespace) == plan.generation:",
        "        if values:",
        f"{_BEFORE}::test_an_answer_is_not_kept_where_the_generation_rose_before_the_end",
    ),
)


def run(mutant: Mutant) -> tuple[bool, str]:
    """Whether the test noticed, and how pytest ended."""
    with tempfile.TemporaryDirectory(prefix="chorale-mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache"))
        file = tree / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.line) != 1:
            return False, f"the line stands {text.count(mutant.line)} times in {mutant.file}"
        file.write_text(text.replace(mutant.line, mutant.instead), encoding="utf-8")
        # The installed client is the editable one of the real tree; the copy's own comes first.
        paths = os.pathsep.join([str(tree / "client"), str(tree)])
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.test]
        environment = {**os.environ, "PYTHONPATH": paths}
        try:
            ended = subprocess.run(
                command,
                cwd=tree,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True, "hung"
        last = ended.stdout.strip().splitlines()[-1] if ended.stdout.strip() else ended.stderr[-200:]
        return ended.returncode == 1, last


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    survivors = 0
    for mutant in chosen:
        noticed, how = run(mutant)
        survivors += not noticed
        print(f"{'red  ' if noticed else 'GREEN'}  {mutant.guarantee:60} {how}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants turned their test red")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
