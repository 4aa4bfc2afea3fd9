"""What is generated from data: tables in pages, and the files beside the pages."""
