"""The audit log: what was changed in this cluster through consoles, newest first."""

from itertools import islice

from ottla.console.contents import visible
from ottla.console.pages import Ask, Page
from ottla.console.views.view import View

PER_PAGE = 100


def audit(ask: Ask) -> Page:
    """The changes of a page; where people sign in, each sees their own."""
    target = ask.place.target
    wanted = ask.query.get("q", "").strip().lower()
    number = ask.number("page", 1, least=1, most=1 << 20)
    found = (
        one
        for one in ask.state.audit.latest()
        if one["target"] == target.text
        and (not target.has_sign_in or one["user"] == ask.place.user)
        and wanted in " ".join(one.values()).lower()
    )
    shown = list(islice(found, (number - 1) * PER_PAGE, number * PER_PAGE + 1))
    return Page(
        template="audit.html",
        title="Audit log",
        section="audit",
        data={
            "entries": [
                {name: visible(text) for name, text in one.items()} for one in shown[:PER_PAGE]
            ],
            "page_number": number,
            "page_count": number + (len(shown) > PER_PAGE),
            "q": ask.query.get("q", ""),
            "path": ask.state.audit.path,
            "is_of_one_user": target.has_sign_in,
        },
    )


VIEWS = {"/audit": View(audit)}
