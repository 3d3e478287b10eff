"""What the controllers decide: pure functions of the image and of what is asked for."""
