"""The outputs beside a page's HTML, each written from what the page is made of."""
