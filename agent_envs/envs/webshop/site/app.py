"""The web shop for people: a Flask application over the environment, without scripts and without outside requests."""

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agent_envs.envs.webshop.shop import choose_shop, open_shop
from agent_envs.envs.webshop.site.pictures import picture
from agent_envs.envs.webshop.site.views import departments, page_context, search_words
from agent_envs.envs.webshop.site.visits import ShopFullError, ShopSettings, Visit, Visits, search_action
from agent_envs.errors import missing_extra

COOKIE = "webshop_shopper"
MAX_BODY_BYTES = 64 * 1024
"""Of a request; a search of 10,000 letters fits and is cut as the environment cuts it."""

_MAX_DIGITS = 9
_PICTURE_MAX_AGE_S = 24 * 60 * 60
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # addresses hold the visit's id
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NOTICES = {
    "moved": "You went on from that page, and a step cannot be undone. This is where you are now.",
    "empty": "Type what you are looking for, for example: running shoes.",
    "unavailable": "That is not on this page any more. This is where you are now.",
    "over": "This visit has ended. Start another one to go on shopping.",
}
_ERRORS = {
    400: ("Something is missing", "The shop did not understand this request. Go back to the shop and use its buttons."),
    403: ("Not from here", "The shop answers only at the address that its terminal shows. Open that one."),
    404: (
        "Nothing here",
        "There is no such page, or the visit has been closed or belongs to somebody else. Start a visit of your own.",
    ),
    405: ("That does not work here", "This address does not take such a request. Go back to the shop."),
    413: ("Too much text", f"The shop takes requests of {MAX_BODY_BYTES // 1024} KB at most. Search for fewer words."),
    500: ("The shop has a problem", "Something went wrong on our side. The terminal of the server says what."),
    503: ("The shop is full", "Too many visits are open. Come back in a while."),
}


def create_app(settings: ShopSettings | None = None, *, trusted_hosts: Sequence[str] | None = None) -> Any:
    """Return the Flask application.

    Args:
        settings: What every visit starts with; None for random tasks of the embedded products.
        trusted_hosts: Host names under which the shop answers; None for any. A shop of one machine names that machine
            here, so that no page from elsewhere reaches it under a name of its own.

    Raises:
        gymnasium.error.DependencyNotInstalled: If Flask is absent.
    """
    try:
        import flask
    except ImportError as error:
        raise missing_extra("flask", "webshop") from error

    app = flask.Flask(__name__)
    app.config.update(
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        MAX_FORM_MEMORY_SIZE=MAX_BODY_BYTES,
        MAX_FORM_PARTS=4,
    )
    app.jinja_options = {**app.jinja_options, "trim_blocks": True, "lstrip_blocks": True}
    site = _Site(flask, settings or ShopSettings(), trusted_hosts)
    app.before_request(site.check_origin)
    app.add_url_rule("/", view_func=site.enter)
    app.add_url_rule("/visits", view_func=site.start, methods=["POST"])
    app.add_url_rule("/visits/<visit_id>", view_func=site.current, endpoint="visit")
    app.add_url_rule("/visits/<visit_id>/<turn>", view_func=site.show, endpoint="page")
    app.add_url_rule("/visits/<visit_id>/<turn>", view_func=site.act, endpoint="act", methods=["POST"])
    app.add_url_rule("/pictures/<version>/<row>-<place>.svg", view_func=site.picture, endpoint="picture")
    for code in _ERRORS:
        app.register_error_handler(code, site.error)
    app.register_error_handler(ShopFullError, site.full)
    app.after_request(_add_headers)
    return app


def _add_headers(response: Any) -> Any:
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


class _Site:
    """The pages; one object per application."""

    def __init__(self, flask: Any, settings: ShopSettings, trusted_hosts: Sequence[str] | None) -> None:
        self.flask, self.settings, self.trusted_hosts = flask, settings, trusted_hosts
        shop = open_shop(choose_shop(data=settings.data, data_dir=settings.data_dir))
        self.catalogue = shop.engine.catalogue
        self.visits = Visits(settings)
        self.departments = departments(self.catalogue)
        self.version = secrets.token_hex(4)  # pictures are kept by browsers, another shop has others

    # ------------------------------------------------------------------ requests

    def check_origin(self) -> None:
        """Refuse requests that other sites send in the background, or under a host name that is not the shop's."""
        request = self.flask.request
        is_foreign = request.headers.get("Sec-Fetch-Site") == "cross-site"
        if is_foreign and (request.method == "POST" or request.headers.get("Sec-Fetch-Mode") != "navigate"):
            self.flask.abort(403)
        if self.trusted_hosts is None:
            return
        try:
            name = urlsplit(f"//{request.host}").hostname
        except ValueError:
            name = None
        if name not in self.trusted_hosts:
            self.flask.abort(403)

    def enter(self) -> Any:
        """Go on with the visit used last, or start one."""
        visit = self.visits.latest(self._shopper())
        return self._go_to(visit) if visit is not None else self.start()

    def start(self) -> Any:
        """Start a visit."""
        shopper, visit = self.visits.start(self._shopper())
        response = self._go_to(visit)
        response.set_cookie(COOKIE, shopper, httponly=True, samesite="Lax")
        return response

    def current(self, visit_id: str) -> Any:
        """Lead to the page of a visit."""
        return self._go_to(self._visit(visit_id))

    def show(self, visit_id: str, turn: str) -> Any:
        """Show the page of a visit; addresses of earlier pages lead to it."""
        visit = self._visit(visit_id)
        with visit.lock:
            if turn != str(visit.turn):
                return self._go_to(visit, notice="moved")
            return self._render(visit)

    def act(self, visit_id: str, turn: str) -> Any:
        """Carry out what a form asks for, then lead to the page it gives."""
        visit, form = self._visit(visit_id), self.flask.request.form
        query, action = form.get("query"), form.get("action")
        if query is None and action is None:
            self.flask.abort(400)
        with visit.lock:
            if visit.is_over:
                return self._go_to(visit, notice="over")
            if turn != str(visit.turn):
                return self._go_to(visit, notice="moved")
            if query is not None:
                search = search_action(query)
                if search is None:
                    return self._go_to(visit, notice="empty")
                visit.act(search)
            elif visit.offers(action) or any(action == department.action for department in self.departments):
                visit.act(action)
            else:
                return self._go_to(visit, notice="unavailable")
            return self._go_to(visit)

    def picture(self, version: str, row: str, place: str) -> Any:
        """Return the drawing of a product."""
        is_number = all(text.isdecimal() and len(text) <= _MAX_DIGITS for text in (row, place))
        if not is_number or int(row) >= len(self.catalogue):
            self.flask.abort(404)
        drawing = picture(self.catalogue.products[int(row)], int(place))
        response = self.flask.Response(drawing, mimetype="image/svg+xml")
        response.cache_control.private, response.cache_control.max_age = True, _PICTURE_MAX_AGE_S
        return response

    def error(self, error: Any) -> Any:
        """Explain what went wrong."""
        title, text = _ERRORS[error.code]
        return self.flask.render_template("error.html", title=title, text=text, code=error.code), error.code

    def full(self, error: ShopFullError) -> Any:
        """Explain that no visit can be started."""
        title, text = _ERRORS[503]
        return self.flask.render_template("error.html", title=title, text=text, code=503), 503

    # ------------------------------------------------------------------ helpers

    def _shopper(self) -> str | None:
        value: str | None = self.flask.request.cookies.get(COOKIE)
        return value

    def _visit(self, visit_id: str) -> Visit:
        visit = self.visits.get(visit_id, self._shopper())
        if visit is None:
            self.flask.abort(404)
        assert visit is not None
        return visit

    def _go_to(self, visit: Visit, *, notice: str | None = None) -> Any:
        url = self.flask.url_for("page", visit_id=visit.id, turn=visit.turn, notice=notice)
        return self.flask.redirect(url, 303)

    def _picture_url(self, row: int, place: int = 0) -> str:
        url: str = self.flask.url_for("picture", version=self.version, row=row, place=place)
        return url

    def _render(self, visit: Visit) -> Any:
        session, recorder = visit.session, visit.recorder
        is_sub_page = session.page not in ("index", "results", "item", "done")
        template = "sub" if is_sub_page else session.page
        return self.flask.render_template(
            f"{template}.html",
            visit=visit,
            session=session,
            act_url=self.flask.url_for("act", visit_id=visit.id, turn=visit.turn),
            picture_url=self._picture_url,
            departments=self.departments,
            search_words=search_words(session),
            is_fixed_task=self.settings.task_index is not None,
            last_action=recorder.turns[-1].action if recorder.turns else "",
            notice=_NOTICES.get(self.flask.request.args.get("notice", ""), ""),
            **page_context(session),
        )
