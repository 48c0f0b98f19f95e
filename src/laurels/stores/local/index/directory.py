"""The directory of a board: the names of its scopes that are not empty, in order."""

from collections.abc import Iterator
from itertools import islice

from sortedcontainers import SortedList

from laurels.model.labels import form_of


class Directory:
    """Scopes grouped by their form, which is the names of their labels. Each operation is O(log
    n)."""

    def __init__(self) -> None:
        self._forms: dict[str, SortedList[str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._forms.values()))

    def __iter__(self) -> Iterator[str]:
        for form in sorted(self._forms):
            yield from self._forms[form]

    def add(self, scope: str) -> None:
        """Add a scope that is not in the directory yet."""
        self._forms.setdefault(form_of(scope), SortedList()).add(scope)

    def discard(self, scope: str) -> None:
        """Remove a scope if it is in the directory."""
        form = form_of(scope)
        if (scopes := self._forms.get(form)) is not None:
            scopes.discard(scope)
            if not scopes:
                del self._forms[form]

    def count(self, form: str) -> int:
        """Return the number of scopes of a form."""
        return len(self._forms.get(form, ()))

    def spread(self, most: int) -> Iterator[tuple[int, list[str]]]:
        """Yield, for each form, the number of its scopes and a sample of up to `most` of them. The
        sample is evenly spread. O(most * log n) for each form."""
        for scopes in self._forms.values():
            count = len(scopes)
            yield (
                count,
                [scopes[i * count // most] for i in range(most)] if count > most else [*scopes],
            )

    def after(self, form: str, scope: str, limit: int) -> list[str]:
        """Return up to `limit` scopes of a form that follow a scope. That scope need not be in the
        directory."""
        scopes = self._forms.get(form)
        if scopes is None:
            return []
        return list(islice(scopes.irange(scope, inclusive=(False, True)), limit))

    def next(self, place: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]:
        """Return up to `limit` scopes of all forms, each as a pair (form, scope), in order. Begin
        after the pair `place`, which is the last pair of the previous call. A scope that was added
        since then at an earlier place is not returned."""
        places: list[tuple[str, str]] = []
        first_form, after = place or ("", "")
        for form in sorted(self._forms):
            if form >= first_form and len(places) < limit:
                scopes = self.after(form, after if form == first_form else "", limit - len(places))
                places += [(form, scope) for scope in scopes]
        return places
