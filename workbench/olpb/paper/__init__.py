"""OLPB's reproduction."""
