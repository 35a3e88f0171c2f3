"""Options of branches that ask a language model."""

from __future__ import annotations

import pytest

from models.errors import NotConfigured, WrongDeclaration
from tasks.branches.hyde import HydeOptions
from tests.support.pipelines.pipeline_files import Declares

BRANCH = """
[stores.local]
kind = "embedded"

[branches.hyde]
kind = "hyde"
group = "dense"
store = "local"
options = {{ {options} }}

[configurations.late]
method = "rrf"
timeout_s = {timeout_s}
"""
MODEL = 'generator = "openai", url = "https://llm.example/v1", model = "m"'


def branch(options: str, timeout_s: object = 8.0) -> str:
    return BRANCH.format(options=options, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ('generator = "openai"', "a language model needs url and model"),
        ('url = "https://llm.example/v1"', "without a language model there is no url"),
        (MODEL.replace("https", "ftp"), "an address is http://HOST/v1"),
        (MODEL.replace("llm.", "user:sk-secret@llm."), "no key belongs in an address"),
        (MODEL.replace("/v1", "/v1/chat/completions"), "an address ends before /chat/completions"),
        (MODEL.replace("/v1", "/v1/chat/completions/?a=b"), "an address ends before /chat/completions"),
        (MODEL.replace("/v1", "/v1#secret"), "an address has no fragment (#)"),
        (MODEL + ', api_key_env = "sk-secret"', "the name of an environment variable"),
        (MODEL + ', api_key = "sk-secret"', "unknown field; there are: url, model, api_key_env"),
        (MODEL + ', prompt = "klingon"', "there are: en, de, es, fr, it, en-science"),
        (MODEL + ', prompt = ""', "options.prompt: no prompt ''; there are: en, de"),
        (MODEL + ', fallback = "vector"', "'feedback' or 'none'"),
        (MODEL + ", documents = 0", "greater than or equal to 1"),
        (MODEL + ", limit_s = 0.3", "least_s is above limit_s"),
        (MODEL + ", temperature = nan", "options.temperature"),
    ],
)
def test_a_wrong_option_names_its_line_and_shows_no_key(declares: Declares, options: str, says: str) -> None:
    with pytest.raises(WrongDeclaration, match=r":9: branches\.hyde\.options") as error:
        declares(branch(options))
    assert says in str(error.value)
    assert "secret" not in str(error.value)


def test_valid_options_are_accepted(declares: Declares) -> None:
    declares(branch(MODEL.replace("/v1", "/openai/v1/?api-version=preview")))
    declares(branch(MODEL + ', prompt = "Say {question}", temperature = 1, limit_s = 3'))


@pytest.mark.parametrize("timeout_s", [0.01, 61, '"long"'])
def test_a_configuration_s_timeout_has_the_range_of_a_request_s(
    declares: Declares, timeout_s: object
) -> None:
    with pytest.raises(WrongDeclaration, match=r":13: configurations\.late\.timeout_s"):
        declares(branch(MODEL, timeout_s))


def test_a_pipeline_lists_the_timeout_of_each_configuration_and_of_the_default(declares: Declares) -> None:
    pipeline = declares(branch(MODEL) + '\n[configurations.quick]\nmethod = "rrf"\n')
    assert pipeline.timeouts_s == {"late": 8, "": 8}


def test_the_key_is_read_only_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    options = HydeOptions(generator="openai", url="http://h/v1", model="m", api_key_env="KEY_OF_THE_TESTS")
    with pytest.raises(NotConfigured, match=r"the variable KEY_OF_THE_TESTS.* is not set"):
        options.api_key()
    for wrong in ("sk-\nsecret", "sk-☃-secret"):
        monkeypatch.setenv("KEY_OF_THE_TESTS", wrong)
        with pytest.raises(NotConfigured, match=r"the variable KEY_OF_THE_TESTS.* no header can carry$"):
            options.api_key()
    monkeypatch.setenv("KEY_OF_THE_TESTS", " sk-secret\n")
    assert options.api_key() == "sk-secret"
    assert "sk-secret" not in repr(options)
    assert HydeOptions().api_key() is None


def test_a_fingerprint_changes_only_with_options_that_change_the_models_answer() -> None:
    options = HydeOptions(generator="openai", url="http://h/v1", model="m")
    mark = options.fingerprint("p")
    elsewhere = options.model_copy(update={"url": "http://other/v1", "limit_s": 9.0, "api_key_env": "K"})
    assert elsewhere.fingerprint("p") == mark
    changes = ({"model": "n"}, {"temperature": 0}, {"documents": 1})
    others = [options.model_copy(update=change).fingerprint("p") for change in changes]
    assert len({mark, options.fingerprint("q"), *others}) == 5
