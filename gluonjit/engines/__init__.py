"""One folder per framework. Nothing here is imported before the framework is."""
