"""Moving data: from one table into another, into files and out of them, to and from SQL."""
