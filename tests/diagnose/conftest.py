"""The wrong layers are no tests, and cannot be imported where PyTorch is missing."""

collect_ignore = ["wrong_layers.py"]
