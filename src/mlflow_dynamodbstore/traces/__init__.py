"""Traces: infos, spans, tags, assessments, search, metrics, and X-Ray as a source of spans."""
