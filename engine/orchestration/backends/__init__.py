"""Ways to hold a background job back, one file each."""
