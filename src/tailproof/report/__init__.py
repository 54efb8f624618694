"""Tables, figures and the page that shows a result."""
