"""A study in a browser: its facts as columns, what serves them, and the page that draws them."""
