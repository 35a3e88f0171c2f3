"""Fine-tunes a cross-encoder on judged questions, and keeps the best of its checks on questions that are held out.

The loss of a question is the localized contrastive loss (Gao, Dai and Callan, ECIR 2021: the softmax over one relevant
passage and hard negatives) plus the binary cross-entropy of each pair, since the pipeline blends the sigmoid of a logit.
The learning rate rises and falls with the time that is spent, so a training always ends on time.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from evaluation.held_out import Blend, best_blend
from evaluation.judged_candidates import JudgedQuestion
from inference.model_folder.model_files import SAFETENSORS, model_folder
from inference.model_folder.sentence_model import read_sentence_model
from inference.model_folder.word_pieces import batches_by_length, padded
from inference.reranking.pair_word_pieces import PairPieces, PairRow
from models.errors import ModelMissing, ServiceError

HELD_OUT = 0.1
"""The largest share of the questions that is held out."""
CHECK_DEPTH = 20
"""Candidates of a held-out question."""
CHECKS = 3
QUESTIONS_A_STEP = 4
RATE, HEAD_RATE = 2e-4, 2e-3
"""Highest learning rates of the encoder, and of the layers above it, which may be new."""
WARM_UP = 0.05
"""The share of the time in which the learning rate rises."""
SCORED_PIECES = 4_096
"""Word pieces of one run without gradients."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a training starts from; `chorale train reranker` goes on with a training of the same recipe."""

    base: str
    """A BERT-like encoder or a cross-encoder: a folder, or a name on the hub."""
    seconds: float
    max_pieces: int
    negatives: int
    held_out: int
    """The most questions that are held out."""
    learns_from: str
    """Collection and split, for people and for comparing."""
    threads: int = field(compare=False)
    seed: int = 1


@dataclass(slots=True)
class Progress:
    """What is shown during a training, and kept with it."""

    spent_s: float = 0.0
    cpu_s: float = 0.0
    """Time of all cores: less than `spent_s` on a busy machine."""
    steps: int = 0
    pairs: int = 0
    loss: float = 0.0
    """A running mean."""
    checks: list[Blend] = field(default_factory=list)

    @property
    def best(self) -> Blend | None:
        return max(self.checks, key=lambda check: check.ndcg, default=None)


def check_recipe(folder: Path, recipe: Recipe) -> None:
    """Keep the recipe in `folder`; raises ServiceError if a training of another recipe is there."""
    file = folder / "training" / "recipe.json"
    if file.is_file() and Recipe(**json.loads(file.read_text())) != recipe:
        raise ServiceError(f"{folder} holds a training with other options; give them again, or another --out")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(recipe)))


def held_out(
    questions: Sequence[JudgedQuestion], most: int
) -> tuple[list[JudgedQuestion], list[JudgedQuestion]]:
    """(Questions to learn from, questions that only check), always the same ones: the hash of the id decides.

    Raises ServiceError if one of the two would be empty.
    """
    judged = [one for one in questions if one.relevant]
    order = sorted(judged, key=lambda one: sha256(one.question_id.encode()).digest())
    count = min(most, max(1, round(HELD_OUT * len(order))))
    checked = [one for one in order[:count] if one.candidates]
    learned = [one for one in order[count:] if one.negatives]
    if not checked or not learned:
        raise ServiceError(
            f"{len(questions)} judged questions are too few to train on: {len(learned)} with a relevant and another "
            f"document to learn from, {len(checked)} to check with"
        )
    return learned, checked


class RerankerTraining:
    """A training in `folder`: the best model in `folder/model`, and in `folder/training` what going on needs.

    Raises ServiceError without PyTorch, and ModelMissing or NotConfigured for a base that is no encoder.
    """

    def __init__(self, folder: Path, recipe: Recipe, questions: Sequence[JudgedQuestion]) -> None:
        try:
            self._torch, transformers = import_module("torch"), import_module("transformers")
        except ImportError as error:
            raise ServiceError(
                f"training needs PyTorch ({error}); `make torch` or `pip install sentence-transformers` installs it"
            ) from error
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        check_recipe(folder, recipe)
        self.folder, self.recipe, self.progress = folder, recipe, Progress()
        self._state = folder / "training" / "state.pt"
        self._learned, self._checked = held_out(questions, recipe.held_out)
        self.learned, self.held_out = len(self._learned), len(self._checked)
        """Numbers of the questions that are learned from, and of those that only check."""
        self._chance = random.Random(recipe.seed)
        self._torch.manual_seed(recipe.seed)
        self._torch.set_num_threads(recipe.threads)
        # Half the time of a step where the processor multiplies bfloat16, and several times of it elsewhere.
        has_bfloat16 = getattr(self._torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
        self._precision = partial(self._torch.autocast, "cpu", self._torch.bfloat16, enabled=has_bfloat16)
        source = model_folder(recipe.base, SAFETENSORS)
        described = read_sentence_model(source)
        self._tokenizer_from = described.transformer
        self._pieces = PairPieces(described, max_pieces=recipe.max_pieces)
        self._padding_id = described.padding_id
        try:
            self._model = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(described.transformer),
                num_labels=1,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=self._torch.float32,
            )
        except (OSError, ValueError) as error:
            raise ModelMissing(f"{source} cannot be trained: {error}") from error
        self._optimiser = self._new_optimiser()
        self._resume()

    def _new_optimiser(self) -> Any:
        """Trains the upper half of the encoder and what is above it.

        A few hundred questions teach no words, and on two cores the lower layers would take half of the time.
        """
        frozen = int(self._model.config.num_hidden_layers) // 2
        encoder: list[Any] = []
        head: list[Any] = []
        for name, weights in self._model.named_parameters():
            layer = name.partition("encoder.layer.")[2].partition(".")[0]
            weights.requires_grad = "embeddings" not in name and (not layer or int(layer) >= frozen)
            if weights.requires_grad:
                (encoder if layer else head).append(weights)
        groups = [{"params": encoder, "peak": RATE}, {"params": head, "peak": HEAD_RATE}]
        return self._torch.optim.AdamW(groups, lr=RATE)

    def run(
        self, *, show: Callable[[Progress], None] = lambda so_far: None, is_stopped: Callable[[], bool]
    ) -> Progress:
        """Train until the time of the recipe is spent or `is_stopped`; the state is kept at each check and at the end."""
        every_s = self.recipe.seconds / CHECKS
        while self.progress.spent_s < self.recipe.seconds and not is_stopped():
            until_s = every_s * (1 + self.progress.spent_s // every_s)
            while self.progress.spent_s < until_s and not is_stopped():
                with self._timed():
                    self._step()
                show(self.progress)
            if not is_stopped():
                with self._timed():
                    self._check(is_stopped)
                show(self.progress)
            self._keep()
        return self.progress

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began_s, cpu_s = time.monotonic(), time.process_time()
        yield
        self.progress.spent_s += time.monotonic() - began_s
        self.progress.cpu_s += time.process_time() - cpu_s

    def _step(self) -> None:
        torch, rate = self._torch, self._share_of_rate()
        for group in self._optimiser.param_groups:
            group["lr"] = group["peak"] * rate
        size = 1 + self.recipe.negatives
        rows: list[PairRow] = []
        for question in self._chance.sample(self._learned, min(QUESTIONS_A_STEP, len(self._learned))):
            negatives = question.negatives
            drawn = self._chance.choices(negatives, k=size - 1)
            if len(negatives) >= size - 1:
                drawn = self._chance.sample(negatives, size - 1)
            texts = [self._chance.choice(question.relevant), *drawn]
            rows += self._pieces.read([(question.text, text) for text in texts])
        self._model.train()
        logits = self._logits(rows).view(-1, size)
        wanted = torch.zeros_like(logits)
        wanted[:, 0] = 1
        functions = torch.nn.functional
        loss = functions.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
        loss = loss + functions.binary_cross_entropy_with_logits(logits, wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimiser.step()
        self._optimiser.zero_grad()
        so_far = self.progress
        so_far.steps, so_far.pairs = so_far.steps + 1, so_far.pairs + len(rows)
        so_far.loss += (float(loss.detach()) - so_far.loss) / min(so_far.steps, 50)

    def _share_of_rate(self) -> float:
        spent = min(1.0, self.progress.spent_s / self.recipe.seconds)
        return min(1.0, 0.1 + spent / WARM_UP, (1 - spent) / (1 - WARM_UP) + 0.01)

    def _logits(self, rows: Sequence[PairRow]) -> Any:
        ids, mask = padded([row.ids for row in rows], padding_id=self._padding_id)
        segments, _ = padded([row.segments for row in rows])
        given = {"input_ids": ids, "attention_mask": mask}
        if int(getattr(self._model.config, "type_vocab_size", 0) or 0) > 1:
            given["token_type_ids"] = segments
        tensors = {name: self._torch.from_numpy(values).long() for name, values in given.items()}
        with self._precision():
            return self._model(**tensors).logits[:, 0].float()

    def _check(self, is_stopped: Callable[[], bool]) -> None:
        """Measure the held-out questions; write the model if it is the best so far."""
        self._model.eval()
        logits: list[list[float]] = []
        for question in self._checked:
            if is_stopped():
                return
            pairs = [(question.text, one.text) for one in question.candidates[:CHECK_DEPTH]]
            logits.append(self._scored(self._pieces.read(pairs)))
        best = self.progress.best
        self.progress.checks.append(found := best_blend(self._checked, logits))
        if best is None or found.ndcg > best.ndcg:
            self._write_model()

    def _scored(self, rows: Sequence[PairRow]) -> list[float]:
        found = [0.0] * len(rows)
        with self._torch.inference_mode():
            for batch in batches_by_length([len(row.ids) for row in rows], max_tokens=SCORED_PIECES):
                for at, logit in zip(batch, self._logits([rows[at] for at in batch]).tolist(), strict=True):
                    found[at] = logit
        return found

    def _write_model(self) -> None:
        """Each file is replaced at once, the weights last: a kill leaves the old model or the new one."""
        new, model = self.folder / "training" / "model", self.folder / "model"
        new.mkdir(parents=True, exist_ok=True)
        model.mkdir(exist_ok=True)
        self._model.save_pretrained(new)
        for name in _TOKENIZER_FILES:
            if (file := self._tokenizer_from / name).is_file():
                shutil.copyfile(file, new / name)
        for file in sorted(new.iterdir(), key=lambda file: file.suffix == ".safetensors"):
            file.replace(model / file.name)

    def _keep(self) -> None:
        part = self._state.with_suffix(".part")
        self._torch.save(
            {
                "progress": json.dumps(asdict(self.progress)),
                "weights": self._model.state_dict(),
                "optimiser": self._optimiser.state_dict(),
            },
            part,
        )
        part.replace(self._state)

    def _resume(self) -> None:
        """Go on with the training in the folder, if there is one."""
        if not self._state.is_file():
            return
        state = self._torch.load(self._state, weights_only=True)
        self._model.load_state_dict(state["weights"])
        self._optimiser.load_state_dict(state["optimiser"])
        kept = json.loads(state["progress"])
        checks = [Blend(**check) for check in kept.pop("checks")]
        self.progress = Progress(**kept, checks=checks)
        self._chance.seed(f"{self.recipe.seed} {self.progress.steps}")
