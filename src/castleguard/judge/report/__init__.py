"""The report kit: findings as values, pictures, tables, and one HTML page. It knows no audit, game or sweep."""
