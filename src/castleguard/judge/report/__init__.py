"""Report kit: findings as values, pictures, tables, and one HTML page. Independent of audits, games and sweeps."""
