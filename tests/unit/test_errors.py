"""Errors keep their codes and say what to do. All of them are in the table of errors."""

import pickle
import re

import pytest
from scripts.error_table import PAGE, page

from laurels import errors
from laurels.errors import ErrorRow, LaurelsError, by_code, table

CODES = """\
archive_damaged
at_in_future at_required atomic_across_shards backup_exists batch_refused batch_too_large
beyond_head board_deleted board_ended board_exists board_not_started cannot_rewind changes_expired
changes_not_kept check_failed closed
cursor_diverged data_moved data_too_large dedupe_full folder_missing folder_not_empty forked
format_too_new hidden_everywhere id_empty id_not_utf8 id_too_long invalid_at invalid_board
invalid_clock
invalid_cursor invalid_data invalid_event invalid_hiding invalid_id invalid_json invalid_label
invalid_limit
invalid_member invalid_name
invalid_offset invalid_percentile invalid_position invalid_radius invalid_range invalid_rank
invalid_value json_too_deep locked log_damaged member_empty member_hidden
member_not_utf8 member_too_long
no_all_window no_prizes no_scope not_finite not_live not_ready not_restorable not_sealed
nothing_to_back_up
partly_counted period_expired period_future periods_unsealed position_differs position_moved
set_with_time shards_differ snapshot_damaged
storage_failed too_late too_many_places total_out_of_range unknown_board unknown_column
unknown_label unknown_measure unknown_period unknown_revision
unknown_scope unknown_url unknown_window unsafe_change
value_out_of_range wrong_columns
"""


def test_the_library_has_exactly_the_listed_codes() -> None:
    codes = [row.code for row in table() if by_code(row.code).__module__ == "laurels.errors"]
    assert codes == CODES.split()


@pytest.mark.parametrize("row", table(), ids=lambda row: row.code)
def test_every_code_says_what_it_means_and_what_to_do(row: ErrorRow) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", row.code)
    assert row.meaning.endswith(".")
    assert row.advice
    assert not row.advice.endswith(".")
    assert 400 <= row.status < 600
    assert row.retryable is (row.status in (429, 503))
    assert by_code(row.code).__name__ == row.name


def test_codes_are_unique() -> None:
    codes = [row.code for row in table()]
    assert len(set(codes)) == len(codes)


def test_an_unknown_code_raises_key_error() -> None:
    with pytest.raises(KeyError):
        by_code("no_such_code")


def test_the_message_says_what_happened_and_what_to_do() -> None:
    error = errors.UnknownBoard("there is no board 'gifts'")
    assert error.what == "there is no board 'gifts'"
    assert str(error) == f"there is no board 'gifts'; {errors.UnknownBoard.advice}"


def test_errors_and_reasons_are_attributes_of_the_exception() -> None:
    assert errors.BoardInvalid("one", "two").errors == ["one", "two"]
    assert errors.UnsafeChange("one", "two").reasons == ["one", "two"]
    assert errors.Locked("held", 4711).pid == 4711


@pytest.mark.parametrize(
    "error",
    [errors.UnknownBoard("x"), errors.BoardInvalid("one", "two"), errors.Locked("held", 4711)],
    ids=lambda error: error.code,
)
def test_errors_travel_between_processes(error: LaurelsError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_the_page_of_codes_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python scripts/error_table.py"
