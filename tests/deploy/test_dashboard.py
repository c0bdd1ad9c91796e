"""The dashboard for Grafana asks for counters that exist."""

from __future__ import annotations

import json
import re

from mlflow_dynamodbstore.table.counters import MEANINGS
from mlflow_dynamodbstore.upkeep.prices import READ_PRICE, WRITE_PRICE
from tests.engines import ROOT

FILE = ROOT / "packaging" / "grafana" / "mlflow-dynamodbstore.json"
DASHBOARD = json.loads(FILE.read_text())
ASKED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_every_counter_is_shown_and_every_one_shown_exists():
    asked = set(re.findall(r"mlflow_dynamodbstore_(\w+?)_total", " ".join(ASKED)))
    assert asked == set(MEANINGS)


def test_panels_have_numbers_places_and_a_data_source_that_is_chosen():
    panels = DASHBOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"${source}"}


def test_dollars_are_computed_with_our_prices():
    (dollars,) = (expr for expr in ASKED if "86400" in expr)
    assert f"{READ_PRICE} *" in dollars
    assert f"{WRITE_PRICE} *" in dollars
