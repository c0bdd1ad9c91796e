"""Text in keys keeps its order, meets no other text and stays within its piece."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys.encoding import bounded, certain_prefix, is_cut, segment, text_of
from tests.keys.strategies import any_texts, texts

LIMIT = 48  # small, so that most texts are cut
crowded = st.text("ab#%é\U0001f600", max_size=60)


@given(any_texts)
def test_a_segment_gives_its_text_back(text):
    assert text_of(segment(text)) == text


@given(any_texts)
def test_a_segment_is_never_empty_and_has_no_delimiter_nor_what_sorts_around_it(text):
    assert segment(text)
    assert min(segment(text)) >= "%"


@given(texts, texts)
@example("", "\x00")
@example("a", "a\x00")
@example("%", "&")
@example("\uffff", "\U0001f600")
def test_segments_sort_as_their_texts_alone_and_before_a_delimiter(one, other):
    def order(a: str, b: str) -> int:
        return (a.encode() > b.encode()) - (a.encode() < b.encode())

    expected = order(one, other)
    assert order(segment(one), segment(other)) == expected
    assert order(segment(one) + "#", segment(other) + "#") == expected
    assert order(segment(one) + "#z", segment(other) + "#a") == (expected or 1)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", "%"),
        ("%", "%25"),
        ("#", "%23"),
        ("a b", "a%20b"),
        ("val/acc", "val/acc"),
        ("\x00", "%00"),
        ("&'()", "&'()"),
        ("größe😀", "größe😀"),
    ],
)
def test_what_is_escaped_and_what_stays(text, written):
    assert segment(text) == written


@pytest.mark.parametrize("no_segment", ["", "a#b", "%4", "%zz", "%41", "%2f", "a%", "a b", "%~"])
def test_what_no_text_becomes_is_refused(no_segment):
    with pytest.raises(ValueError):
        text_of(no_segment)


@given(crowded, st.integers(37, 80))
def test_a_bounded_text_fits_its_limit_and_is_whole_whenever_it_can_be(text, limit):
    made = bounded(text, limit)
    assert len(made.encode()) <= limit
    assert is_cut(made) == (len(segment(text).encode()) > limit)
    if not is_cut(made):
        assert made == segment(text)


@given(crowded, st.integers(37, 80))
@example("#" * 60, 37)
@example("#" * 60, 38)
@example("#" * 60, 39)
@example("\U0001f600" * 60, 37)
def test_a_cut_text_keeps_the_longest_whole_beginning(text, limit):
    made = bounded(text, limit)
    if is_cut(made):
        head, _, digest = made.partition("%~")
        assert segment(text).startswith(head)
        assert text_of(head or "%") == text[: len(text_of(head or "%"))]
        longer = segment(text[: len(text_of(head or "%")) + 1])
        assert len(longer.encode()) > limit - 34
        assert len(digest) == 32


@given(crowded)
def test_a_cut_text_does_not_pretend_to_be_whole(text):
    made = bounded(text, LIMIT)
    if is_cut(made):
        with pytest.raises(ValueError):
            text_of(made)


@given(crowded, crowded)
@example("a" * 60, "a" * 61)
@example("a" * 14 + "%~", "a" * 14 + "%~" + "0" * 32)
def test_no_two_texts_meet(one, other):
    assert (bounded(one, LIMIT) == bounded(other, LIMIT)) == (one == other)


def test_a_text_that_looks_like_a_cut_one_does_not_meet_it():
    cut = bounded("a" * 100, LIMIT)
    assert bounded(cut, 1000) != cut


@given(crowded, crowded)
@example("a" * 14 + "bc", "a" * 14 + "\U0001f600" * 30)
@example("a" * 13 + "bc", "a" * 13 + "\U0001f600" * 30)
@example("a" * 12 + "bc", "a" * 12 + "\U0001f600" * 30)
def test_from_a_text_on_all_bounded_texts_are_from_its_certain_prefix_on(one, other):
    low, high = sorted([one, other], key=str.encode)
    certain = certain_prefix(bounded(low, LIMIT), LIMIT)
    assert bounded(high, LIMIT).encode() >= certain.encode()


@given(crowded, crowded)
@example("a" * 20, "b" * 40)
@example("a" * 40, "b" * 40)
def test_texts_that_begin_alike_share_the_certain_prefix(beginning, rest):
    whole = bounded(beginning + rest, LIMIT)
    if beginning:
        assert whole.startswith(certain_prefix(bounded(beginning, LIMIT), LIMIT))


@given(st.text("ab", max_size=LIMIT - 37))
def test_a_short_text_is_certain_to_its_end(text):
    assert certain_prefix(bounded(text, LIMIT), LIMIT) == segment(text)


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(ValueError):
        bounded("\ud800")


def test_a_limit_without_room_for_a_hash_is_refused():
    with pytest.raises(ValueError):
        bounded("a", 36)
