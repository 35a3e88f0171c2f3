"""The routes of the console below `/console`, and what all of them do: the login, the key's rights, errors as pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from api.app import create_app
from api.limits import REFUSED_AFTER_S, count
from api.problems import MEDIA_TYPE, Problem, not_found, problem_of, response_of
from api.services import Services
from api.upload_limits import paced, upload_place
from config.settings import Settings
from console import compare, corpus, doctor, health, jobs, judge, keys, recorded, search, sessions, uploading
from console.pages import FOLDER, HEADERS, Page, PageAction, Visit, html, json
from console.reference import reference_of
from console.sessions import PATH
from records.keys.grant import Forbidden

PAGES = (
    *search.PAGES,
    *recorded.PAGES,
    *compare.PAGES,
    *judge.PAGES,
    *jobs.PAGES,
    *corpus.PAGES,
    *uploading.PAGES,
    *health.PAGES,
    *doctor.PAGES,
    *keys.PAGES,
)
FIRST = PATH + PAGES[0].path
MOST_FILES = 50
"""Files of a form."""
MOST_FIELDS = 200
"""Fields of a form.  Judge sends up to two for each document."""

Handler = Callable[[Request], Awaitable[Response]]


def create_site(settings: Settings | None = None, *, doctor: Sequence[str] | None = None) -> FastAPI:
    """The HTTP API with the console, to which `/` leads.  `doctor` is the command that examines the installation."""
    api = create_app(settings)
    for path in ("/", PATH):
        api.router.add_route(path, lambda _: RedirectResponse(FIRST), include_in_schema=False)
    api.router.add_route("/docs", _show_reference, include_in_schema=False)
    console = _console(api)
    console.state.doctor = doctor
    api.mount(PATH, console)
    return api


def _console(api: FastAPI) -> Starlette:
    pages = [
        Route(page.path + ending, _handler(page), methods=["GET"])
        for page in PAGES
        for ending in (".json", "")
    ]
    actions = [
        Route(page.path, _action(page, page.post), methods=["POST"], max_body_size=page.most_bytes)
        for page in PAGES
        if page.post is not None
    ]
    site = Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse(FIRST)),
            Route("/login", _show_login, methods=["GET"]),
            Route("/login", _with_error_pages(_log_in), methods=["POST"]),
            Route("/logout", _with_error_pages(_log_out), methods=["POST"]),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
            *pages,
            *actions,
        ],
        exception_handlers={404: _as_page, 405: _as_page},
    )
    site.state.api = api
    return site


def services_of(request: Request) -> Services:
    services: Services = request.app.state.api.state.services
    return services


def _handler(page: Page) -> Handler:
    async def show(request: Request) -> Response:
        visit = await _visit(request, page)
        if visit is None:
            return _unknown(request)
        data = await page.data(visit)
        if isinstance(data, Response):
            data.headers.update(HEADERS)
            return data
        if _is_json(request):
            return json(data)
        return html(page.template, **_frame(request, page.title), **data)

    return _with_error_pages(show)


def _action(page: Page, post: PageAction) -> Handler:
    async def act(request: Request) -> Response:
        visit = await _visit(request, page)
        if visit is None:
            return _unknown(request)
        has_files = page.most_bytes is not None
        with upload_place(visit.services, visit.session.grant) if has_files else nullcontext():
            form, files = await _form(request, most_files=MOST_FILES if has_files else 0)
            check_token(visit.session, form)
            path = await post(replace(visit, files=files), form)
        return RedirectResponse(PATH + path, 303, headers=HEADERS)

    return _with_error_pages(act)


async def _visit(request: Request, page: Page) -> Visit | None:
    """None without a login.  Raises Problem for too many calls, and Forbidden without a scope of the page."""
    services = services_of(request)
    session = await sessions.current(request, services)
    if session is None:
        return None
    request.state.session = session
    await count(request, session.grant, services.redis)
    if "\0" in "".join((*map(str, request.path_params.values()), *request.query_params.values())):
        raise not_found()  # nothing has such a name, and PostgreSQL refuses it
    if not session.has(*page.scopes):
        raise Forbidden(" or ".join(page.scopes))
    return Visit(request, services, session)


def _with_error_pages(handler: Handler) -> Handler:
    async def handled(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return await _as_page(request, error)

    return handled


def _is_json(request: Request) -> bool:
    return request.url.path.endswith(".json")


def _frame(request: Request, title: str) -> dict[str, Any]:
    """What the frame of each page shows."""
    session: sessions.Session | None = getattr(request.state, "session", None)
    listed = [page for page in PAGES if page.is_listed and session is not None and session.has(*page.scopes)]
    return {
        "title": title,
        "session": session,
        "pages": listed,
        "here": request.url.path,
        "query": request.url.query,
    }


def _unknown(request: Request) -> Response:
    if _is_json(request):
        return _with_headers(response_of(Problem("unauthenticated", "log in first, at /console/login")))
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = f"{PATH}/login?{urlencode({'next': target})}"
    return RedirectResponse(login, 303, headers=HEADERS)


async def _show_reference(request: Request) -> Response:
    return html("reference.html", **_frame(request, "HTTP API"), **reference_of(request.app))


async def _show_login(request: Request) -> Response:
    return _login_page(request, request.query_params.get("next", ""))


def _login_page(request: Request, next_: str, error: str = "", status: int = 200) -> Response:
    return html("login.html", status, **_frame(request, "Log in"), next=next_, error=error)


async def _log_in(request: Request) -> Response:
    form, _ = await _form(request)
    # Only a path of the console itself: another address could look like this one.
    next_ = form["next"] if form.get("next", "").startswith(f"{PATH}/") else FIRST
    response = RedirectResponse(next_, 303, headers=HEADERS)
    if await sessions.begin(request, services_of(request), form.get("key", "").strip(), response):
        return response
    await asyncio.sleep(REFUSED_AFTER_S)
    return _login_page(request, next_, "This is not a valid key. `chorale keys create` makes one.", 401)


async def _log_out(request: Request) -> Response:
    services = services_of(request)
    session = await sessions.current(request, services)
    response = RedirectResponse(f"{PATH}/login", 303, headers=HEADERS)
    if session is not None:
        check_token(session, (await _form(request))[0])
        await sessions.end(request, services, response)
    return response


def check_token(session: sessions.Session, form: dict[str, str]) -> None:
    """Raises Forbidden for a form that this console has not made for this session."""
    if not sessions.is_token(session, form.get("token", "")):
        raise Problem("forbidden", "this form is not of your session: open the page again")


class _Paced(Request):
    async def stream(self) -> AsyncGenerator[bytes, None]:
        async for chunk in paced(super().stream()):
            yield chunk


async def _form(request: Request, *, most_files: int = 0) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """The fields of a form that this site has sent, and name and content of its files.  Raises Problem."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Problem("forbidden", "this form was sent by another site")
    body = _Paced(request.scope, request.receive)
    async with body.form(max_files=most_files, max_fields=MOST_FIELDS) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        sent = [value for value in form.getlist("file") if isinstance(value, UploadFile)]
        return fields, [(file.filename, await file.read()) for file in sent if file.filename]


async def _as_page(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if _is_json(request):
        return _with_headers(response_of(problem))
    return html("error.html", problem.status, **_frame(request, problem.title), problem=problem.document)


def _with_headers(response: Response) -> Response:
    response.headers.update(HEADERS | {"Content-Type": MEDIA_TYPE})
    return response
