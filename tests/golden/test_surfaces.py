"""Signatures, OpenAPI, help and error codes equal their golden files, so that no change happens
unnoticed."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest

from tests.golden import surfaces

WRITE = "decide on the change, then run `python -m tests.golden.write {}` and say why in the commit"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the notation is that of Python 3.11")
def test_signatures_of_public_names_are_the_recorded_ones() -> None:
    assert surfaces.signatures() == surfaces.SIGNATURES.read_text(), WRITE.format("signatures")


def test_the_openapi_document_is_the_recorded_one() -> None:
    assert surfaces.described() == surfaces.OPENAPI.read_text(), WRITE.format("openapi")


def test_the_help_of_every_command_is_the_recorded_one() -> None:
    assert surfaces.help_texts() == surfaces.HELP.read_text(), WRITE.format("help")


def test_error_codes_are_the_recorded_ones() -> None:
    assert surfaces.error_table() == surfaces.ERRORS.read_text(), WRITE.format("errors")


def test_every_reference_of_the_openapi_document_leads_to_a_schema() -> None:
    described = surfaces.described()
    schemas = msgspec.json.decode(described)["components"]["schemas"]
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', described))
    assert referred
    assert referred <= schemas.keys()
