"""Point 10: lists page with a cursor. LATEST comes first whatever the order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.errors import InvalidCursor, InvalidInput


def all_pages(listing: Callable[..., Any], **options: Any) -> list[list[Any]]:
    pages, cursor = [], None
    while True:
        page = listing(cursor=cursor, **options)
        pages.append(list(page))
        cursor = page.cursor
        if cursor is None:
            return pages


@pytest.fixture
def repo(backing: Backing) -> Repository:
    made = backing.open()
    for number in range(1, 8):
        made.publish("app", f"{number}".encode())
    return made


def numbers(pages: list[list[Any]]) -> list[list[str]]:
    return [[row.version for row in page] for page in pages]


def test_versions_newest_first(repo: Repository):
    pages = numbers(all_pages(lambda **o: repo.list_versions("app", limit=3, **o)))
    assert pages[:3] == [["LATEST", "7", "6"], ["5", "4", "3"], ["2", "1"]]
    assert not any(pages[3:])


@pytest.mark.parametrize("limit", [1, 3, 8, 100])
def test_versions_oldest_first_begin_with_latest_too(limit, repo: Repository):
    pages = numbers(
        all_pages(lambda **o: repo.list_versions("app", limit=limit, oldest_first=True, **o))
    )
    assert list(itertools.chain(*pages)) == ["LATEST", *(str(number) for number in range(1, 8))]
    assert all(len(page) == limit for page in pages[:7] if page is not pages[-1])


def test_deleted_versions_do_not_make_a_page_short(repo: Repository):
    for number in (6, 5, 4):
        repo.delete("app", number)
    pages = numbers(all_pages(lambda **o: repo.list_versions("app", limit=3, **o)))
    assert pages[:2] == [["LATEST", "7", "3"], ["2", "1"]]


def test_a_listing_stays_right_while_versions_are_added(repo: Repository):
    first = repo.list_versions("app", limit=3)
    repo.publish("app", b"new")
    second = repo.list_versions("app", limit=3, cursor=first.cursor)
    assert [row.version for row in second] == ["5", "4", "3"]


def test_names(repo: Repository):
    for name in ("b", "a", "c"):
        repo.put(name, b"x")
    pages = all_pages(lambda **o: repo.list_names(limit=2, **o))
    assert pages[:2] == [["a", "app"], ["b", "c"]]


def test_aliases(repo: Repository):
    for alias in ("prod", "dev", "test"):
        repo.put_alias("app", alias, 1)
    pages = all_pages(lambda **o: repo.list_aliases("app", limit=2, **o))
    assert [[row.alias for row in page] for page in pages][:2] == [["dev", "prod"], ["test"]]


def test_history_newest_first_and_of_no_other_alias(repo: Repository):
    for version in range(1, 6):
        repo.put_alias("app", "prod", version)
        repo.put_alias("app", "prod-2", version)
    pages = all_pages(lambda **o: repo.history("app", "prod", limit=2, **o))
    assert [[change.revision for change in page] for page in pages][:3] == [[5, 4], [3, 2], [1]]


def test_a_listing_of_nothing_is_empty(repo: Repository):
    assert repo.list_versions("nothing").items == []
    assert repo.list_aliases("app").items == []
    assert repo.history("app", "prod").items == []


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, 1.5, "10"])
def test_a_bad_limit_is_refused(limit, local: Backing):
    repo = local.open()
    for listing in (
        lambda: repo.list_names(limit=limit),
        lambda: repo.list_versions("app", limit=limit),
        lambda: repo.list_aliases("app", limit=limit),
        lambda: repo.history("app", "prod", limit=limit),
    ):
        with pytest.raises(InvalidInput, match="is not a limit"):
            listing()


@pytest.mark.parametrize("cursor", ["", "x", "-", "!", "e30"])
def test_a_cursor_that_no_page_gave_is_refused(cursor, repo: Repository):
    with pytest.raises(InvalidCursor, match="take it from the page before"):
        repo.list_versions("app", cursor=cursor)


def test_a_cursor_of_another_listing_is_refused(repo: Repository):
    repo.put("b", b"x")
    cursor = repo.list_names(limit=1).cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor):
        repo.list_versions("app", cursor=cursor)
