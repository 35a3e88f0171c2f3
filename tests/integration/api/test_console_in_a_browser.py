"""The console in Chromium, as people use it: by mouse, by keyboard, on a phone, in the dark, and with a screen reader's rules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.integration.api.visitors import wait_listed
from tests.support.servers.http_api import HttpApi
from tests.support.servers.services import missing

LIMIT_MS = 60_000
pytestmark = pytest.mark.slow
PAGES = (
    "search",
    "search?q=How+is+bread+baked%3F&namespace=default",
    "requests",
    "compare",
    "compare?b=rrf&weight.bm25=1&k=7&tune=yes",
    "judge",
    "judge?b=bm25",
    "jobs",
    "corpus",
    "corpus/default",
    "corpus/default/document?id=bread",
    "upload?namespace=default",
    "health",
    "health/doctor",
    "keys",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if (program := shutil.which("chromium")) is None:
        missing("without chromium: `apt-get install chromium` installs it")
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=LIMIT_MS)
        yield browser
        browser.close()


class Visitor:
    """A browser window that has logged in; `faults` are errors of scripts and what the policy has blocked."""

    def __init__(self, context: BrowserContext, api: HttpApi, key: str) -> None:
        context.set_default_timeout(LIMIT_MS)
        self.page = context.new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        self.page.goto(f"{api.origin}/")
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/console/search")


@pytest.fixture
def visitor(chromium: Browser, api: HttpApi) -> Iterator[Visitor]:
    with chromium.new_context() as context:
        visitor = Visitor(context, api, api.key())
        yield visitor
        assert visitor.faults == []


def search(page: Page, question: str) -> str:
    """Types the question and returns the id of its request."""
    page.get_by_label("Question").fill(question)
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="the lists of its branches")
    expect(link).to_be_visible(timeout=LIMIT_MS)
    return str(link.get_attribute("href")).rpartition("/")[2]


def test_a_person_searches_opens_the_request_moves_a_slider_and_sends_the_address(
    visitor: Visitor, api: HttpApi
) -> None:
    page = visitor.page
    request_id = search(page, "Who pays for repairs?")
    expect(page.locator(".hits > li").first).to_contain_text("Repairs")
    with api.client() as client:
        wait_listed(client, request_id)
    page.get_by_role("link", name="the lists of its branches").click()
    expect(page.locator("#fused tbody tr").first).to_contain_text("Repairs")
    bm25 = page.get_by_label("weight of bm25")
    bm25.fill("0")
    page.wait_for_url("**weight.bm25=0&**")
    expect(page.get_by_text("Fused with these changes")).to_be_visible()
    deadline = page.get_by_label("deadline (ms)")
    deadline.fill("0")
    expect(page.get_by_text("Nothing is left to fuse")).to_be_visible()
    # The address alone shows a colleague the same.
    address, fused = page.url, page.locator("#fused").inner_text()
    page.goto(address)
    assert page.locator("#fused").inner_text() == fused
    page.get_by_role("link", name="as it was recorded").click()
    page.get_by_label("Where is document").fill("bread")
    expect(page.locator(".where")).to_contain_text("The fusion puts it at rank")


def test_the_keyboard_moves_through_rows_and_opens_them(visitor: Visitor) -> None:
    page = visitor.page
    page.keyboard.press("/")
    expect(page.get_by_label("Question")).to_be_focused()
    page.goto(page.url.replace("/search", "/corpus"))
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).not_to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("tr.selected")).to_contain_text("default")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/corpus/default")


def test_a_key_counts_as_soon_as_the_list_of_keys_is_closed(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(page.url.replace("/search", "/corpus"))
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    # In one step, so that the browser has not moved the focus out of the closed list.
    page.evaluate("""() => {
        const focused = document.activeElement;
        document.getElementById("keys").close();
        focused.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true, cancelable: true }));
    }""")
    expect(page.locator("tr.selected")).to_contain_text("default")


def test_files_are_dropped_and_the_page_follows_them_until_they_can_be_found(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(page.url.replace("/search", "/upload?namespace=dropped"))
    files = page.evaluate_handle(
        """() => {
          const files = new DataTransfer();
          files.items.add(new File(["# Oven\\n\\nAn oven bakes bread."], "oven.md"));
          return files;
        }"""
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": files})
    page.wait_for_url("**/console/corpus/dropped/tickets/*")
    expect(page.get_by_text("The documents can be found.")).to_be_visible()
    page.get_by_role("link", name="dropped").click()
    page.get_by_role("link", name="upload/oven.md").click()
    expect(page.get_by_text("An oven bakes bread.")).to_be_visible()


def test_a_hit_is_graded_without_another_search_and_the_request_is_searched_again(
    visitor: Visitor, api: HttpApi
) -> None:
    page = visitor.page
    request_id = search(page, "Who pays for repairs?")
    with api.client() as client:
        wait_listed(client, request_id)
    page.locator("#hit-1").get_by_role("button", name="3, is the answer").click()
    expect(page.locator("#hit-1 [aria-pressed=true]")).to_have_text("3")
    link = page.get_by_role("link", name="the lists of its branches")
    assert str(link.get_attribute("href")).endswith(request_id)
    link.click()
    page.get_by_role("button", name="Search again").click()
    page.wait_for_url("**again=*")
    expect(page.locator("#again tbody tr").first).to_contain_text("repairs")


def test_a_hidden_page_sends_no_request(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    page.goto(page.url.replace("/search", "/jobs"))
    with page.expect_request("**/console/jobs"):
        page.clock.run_for(8_000)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.clock.run_for(60_000)
    assert requests == []


def test_a_column_s_head_sorts_the_rows_and_the_order_outlives_a_refresh(visitor: Visitor) -> None:
    page = visitor.page
    for question in ("How is bread baked?", "Who pays for repairs?", "What is a deposit?"):
        search(page, question)
        page.goto(page.url.partition("?")[0])
    page.clock.install()
    page.goto(page.url.replace("/search", "/requests"))
    expect(page.locator("#requests tbody tr")).not_to_have_count(0)
    head = page.get_by_role("columnheader", name="ms")

    def figures() -> list[int]:
        return [int(text) for text in page.locator("#requests tbody tr td:nth-child(4)").all_inner_texts()]

    head.get_by_role("button").click()
    assert figures() == sorted(figures())
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    with page.expect_response("**/console/requests"):
        page.clock.run_for(10_000)
    expect(head).to_have_attribute("aria-sort", "descending")
    assert figures() == sorted(figures(), reverse=True)


def test_figures_with_a_unit_are_sorted_as_numbers(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    # No refresh replaces the ages that are written here.
    page.clock.pause_at(page.evaluate("Date.now() + 1_000"))
    page.goto(page.url.replace("/search", "/health"))
    heads = page.get_by_role("columnheader", name="Last sign of life")
    ages = page.locator("table", has=heads).locator("tbody tr td:last-child")
    assert ages.count() > 2
    ages.evaluate_all(
        "cells => cells.forEach((cell, place) => { cell.textContent = `${9 + place}.5 s ago`; })"
    )
    heads.get_by_role("button").click()
    heads.get_by_role("button").click()
    assert ages.all_inner_texts() == [f"{9 + place}.5 s ago" for place in reversed(range(ages.count()))]


def test_results_follow_the_typing_where_the_visitor_wants_that(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    page.goto(f"{page.url}?q=bread&namespace=default")
    page.get_by_label("Search while I type").check()
    expect(page.locator("#hit-1")).to_contain_text("bread")
    page.clock.pause_at(page.evaluate("Date.now() + 1_000"))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_label("Question").press_sequentially("repairs", delay=20)
    page.get_by_label("Question").fill("Who pays for repairs?")
    assert requests == [], "the page waits for a pause in the typing"
    page.clock.run_for(400)
    page.clock.resume()
    expect(page.locator("#hit-1")).to_contain_text("repairs")
    expect(page).to_have_url(re.compile(r"q=Who(\+|%20)pays"))


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        pytest.param("light", 1440, id="window"),
        pytest.param("dark", 390, id="phone", marks=pytest.mark.long),
    ],
)
def test_every_page_obeys_the_rules_of_accessibility_and_fits_the_window(
    chromium: Browser, api: HttpApi, scheme: str, width: int
) -> None:
    with chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}) as context:  # type: ignore[arg-type]
        visitor = Visitor(context, api, api.key())
        request_id = search(visitor.page, "How is bread baked?")
        with api.client() as client:
            wait_listed(client, request_id)
        for path in (*PAGES, f"requests/{request_id}?document=bread&deadline_ms=1"):
            visitor.page.goto(f"{api.origin}/console/{path}")
            results = Axe().run(visitor.page)
            assert results.violations_count == 0, f"{path}: {results.generate_report()}"
            # Wide tables and pictures scroll by themselves; the page does not.
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert visitor.faults == []
