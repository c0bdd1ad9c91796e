"""Label schemas and review queues: what reviewers are asked, and about which traces."""
