"""MXNet as the engine sees it: its arrays, blocks and functions, and how its operators infer shapes."""
