"""The matrix of requests and the rules that allow or deny them."""
