"""The product's own golden suite: its questions, and the sample articles that stand beside the demo's corpus."""
