"""Several sites that publish one stream together: dCASTLE."""
