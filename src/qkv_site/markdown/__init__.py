"""What Markdown runs: fences, formulas, diagrams, claims and heat maps."""
