"""What each mechanism of the library gives: the programs of the collection without it."""
