"""Traces: infos, spans, tags, assessments, search, metrics, archiving, and spans from X-Ray."""
