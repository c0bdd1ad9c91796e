"""Label schemas and review queues: what people are asked about traces, and which ones."""
