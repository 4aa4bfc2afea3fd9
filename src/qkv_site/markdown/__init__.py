"""What Markdown runs: fences, formulas, diagrams, claims, heat maps and masks."""
