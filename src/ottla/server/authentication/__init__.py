"""Who a client is: SASL, and tokens of OAuth."""
