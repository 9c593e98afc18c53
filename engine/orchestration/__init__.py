"""The machine that decides, and the background job that it holds back and gives back."""
