"""How a flush is captured and scheduled, or that calls run eagerly: what is measured, chosen and kept."""
