"""What jobs have written, as clients read it: tables, singular values, files by ranges."""
