"""Names and versions: one rule each, checked before anything is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.errors import InvalidName, InvalidReference, InvalidVersion
from versioned.keys import Keys, decode_version_sk, encode_version_sk
from versioned.names import LATEST, MAX_NUMBER, NAME_RULE, VERSION_RULE
from versioned.references import Reference, parse_reference

BAD_NAMES = [
    "", ".", "..", "a/", "/a", "a/b", "__x-alias", "_a", "-a", "a b", "a\n", "a#b", "a:b", "a@b",
    "é", "x" * 129, "x" * 2050, None, 7, b"a",
]  # fmt: skip
GOOD_NAMES = ["a", "A", "7", "my-app", "my_app.v2", "x-alias", "LATEST", "000001", "x" * 128]
BAD_VERSIONS = [True, False, 0, -1, 1.0, 1.5, "", "abc", "-1", "+1", " 1", "1 ", "1.0", "latest",
                "١", "0", "000000", "A999999", "B1000000", 10**17, [], b"1"]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name)[:20])
def test_a_bad_name_is_refused_everywhere_with_the_rule_and_nothing_is_written(
    name, local: Backing
):
    repo = local.open()
    calls = [
        lambda: repo.put(name, b"content"),
        lambda: repo.publish(name, b"content"),
        lambda: repo.publish(name),
        lambda: repo.show(name),
        lambda: repo.list_versions(name),
        lambda: repo.delete(name, 1),
        lambda: repo.undelete(name, 1),
        lambda: repo.purge(name, 1),
        lambda: repo.purge_artifact(name),
        lambda: repo.put_alias(name, "prod", 1),
        lambda: repo.put_alias("good", name, 1),
        lambda: repo.get_alias(name, "prod"),
        lambda: repo.get_alias("good", name),
        lambda: repo.list_aliases(name),
        lambda: repo.delete_alias("good", name),
        lambda: repo.rollback("good", name),
        lambda: repo.rollback("good", name, 3),
        lambda: repo.history("good", name),
        lambda: repo.resolve(name, "prod", "key"),
        lambda: repo.promote("good", name),
    ]
    for call in calls:
        with pytest.raises(InvalidName, match="1 to 128 letters") as caught:
            call()
        assert NAME_RULE in str(caught.value)
        assert isinstance(caught.value, ValueError)
    assert repo.list_names().items == []
    assert repo.storage.identity() is None


@pytest.mark.parametrize("name", GOOD_NAMES, ids=lambda name: name[:20])
def test_a_good_name_works_for_artifacts_and_aliases(name, local: Backing):
    repo = local.open()
    assert repo.publish(name, b"content").version == "1"
    repo.put_alias(name, name, 1)
    assert repo.read(repo.resolve(name, name)) == b"content"


def test_a_long_bad_name_is_shown_shortened(local: Backing):
    with pytest.raises(InvalidName) as caught:
        local.open().put("x" * 2050, b"")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("version", BAD_VERSIONS, ids=repr)
def test_a_bad_version_is_refused_with_the_rule(version, local: Backing):
    with pytest.raises(InvalidVersion) as caught:
        encode_version_sk(version)
    assert VERSION_RULE in str(caught.value)
    repo: Repository = local.open()
    for call in (repo.show, repo.delete, repo.undelete, repo.purge):
        with pytest.raises(InvalidVersion):
            call("app", version)


def test_six_digits_are_a_floor_and_not_a_ceiling():
    assert encode_version_sk(999_999) == "999999"
    assert encode_version_sk(1_000_000) == "A1000000"
    assert "999999" < encode_version_sk(1_000_000) < encode_version_sk(MAX_NUMBER) < LATEST


@given(st.lists(st.integers(1, MAX_NUMBER), min_size=2, unique=True))
def test_sort_keys_sort_as_their_numbers_do_and_all_before_latest(numbers):
    keys = [encode_version_sk(number) for number in sorted(numbers)]
    assert keys == sorted(keys)
    assert keys[-1] < LATEST


@given(st.integers(1, MAX_NUMBER))
def test_a_sort_key_and_any_spelling_of_a_number_lead_back_to_it(number):
    key = encode_version_sk(number)
    assert decode_version_sk(key) == str(number)
    assert {encode_version_sk(text) for text in (key, str(number), f"{number:020d}")} == {key}


def test_a_row_that_the_older_package_wrote_with_seven_digits_stays_readable():
    assert decode_version_sk("1000000") == "1000000"


@given(st.lists(st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,9}", fullmatch=True), unique=True))
def test_no_two_names_and_no_two_kinds_of_items_meet_in_one_partition(names):
    partitions = [
        partition
        for prefix in ("", "team:", "~0123456789ab:")
        for name in names
        for keys in [Keys(prefix)]
        for partition in (
            keys.versions(name),
            keys.aliases(name),
            keys.history(name),
            keys.digest(name, "0" * 64).pk,
            keys.state(name).pk,
            keys.blob(name).pk,
            keys.names + "#" + name,
        )
    ]
    assert len(set(partitions)) == len(partitions)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("my-app", Reference("my-app")),
        ("my-app/3", Reference("my-app", "3")),
        ("my-app/000003", Reference("my-app", "3")),
        ("my-app/LATEST", Reference("my-app")),
        ("my-app@prod", Reference("my-app", alias="prod")),
    ],
)
def test_a_reference_says_which_version_is_meant(text, means):
    assert parse_reference(text) == means


@pytest.mark.parametrize(
    "text", ["", "@prod", "a@", "a/", "a/x", "a/3@prod", "a@b@c", "a/3/4", "é"]
)
def test_a_bad_reference_is_refused_with_right_ones(text):
    with pytest.raises(InvalidReference, match="my-app@prod"):
        parse_reference(text)
