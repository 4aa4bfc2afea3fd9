"""The little that the programs call which render the pages."""
