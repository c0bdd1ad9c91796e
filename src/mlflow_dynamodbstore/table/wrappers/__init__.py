"""Engines around engines: each adds one thing and passes everything else on."""
