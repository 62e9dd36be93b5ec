"""What the tests of claims share: the real table, and claims by hand."""

from __future__ import annotations

from workbench.reproduction.claims import Claim, load_claims

TABLE = load_claims()
CLAIMS = [Claim(**record) for record in TABLE.iter_rows(named=True)]


def claim(value: str, unit: str = "percent", check: str = "near", id: str = "toy.a.one") -> Claim:
    return Claim(id, "toy", "Fig. 1", "", "a metric", unit, value, check)
