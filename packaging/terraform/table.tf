# The table: paid by request, with expiry and point-in-time recovery, protected against deletion.
# tests/deploy/test_terraform.py compares it with what the package itself creates.

resource "aws_dynamodb_table" "mlflow" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = true

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  attribute {
    name = "gsi1pk"
    type = "S"
  }

  attribute {
    name = "gsi1sk"
    type = "S"
  }

  attribute {
    name = "gsi2pk"
    type = "S"
  }

  attribute {
    name = "gsi2sk"
    type = "S"
  }

  attribute {
    name = "gsi3pk"
    type = "S"
  }

  attribute {
    name = "gsi3sk"
    type = "S"
  }

  attribute {
    name = "gsi4pk"
    type = "S"
  }

  attribute {
    name = "gsi4sk"
    type = "S"
  }

  attribute {
    name = "gsi5pk"
    type = "S"
  }

  attribute {
    name = "gsi5sk"
    type = "S"
  }

  attribute {
    name = "lsi1sk"
    type = "S"
  }

  attribute {
    name = "lsi2sk"
    type = "S"
  }

  attribute {
    name = "lsi3sk"
    type = "S"
  }

  attribute {
    name = "lsi4sk"
    type = "S"
  }

  attribute {
    name = "lsi5sk"
    type = "S"
  }

  local_secondary_index {
    name            = "LSI1"
    range_key       = "lsi1sk"
    projection_type = "ALL"
  }

  local_secondary_index {
    name            = "LSI2"
    range_key       = "lsi2sk"
    projection_type = "KEYS_ONLY"
  }

  local_secondary_index {
    name            = "LSI3"
    range_key       = "lsi3sk"
    projection_type = "KEYS_ONLY"
  }

  local_secondary_index {
    name            = "LSI4"
    range_key       = "lsi4sk"
    projection_type = "KEYS_ONLY"
  }

  local_secondary_index {
    name            = "LSI5"
    range_key       = "lsi5sk"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI1"
    hash_key        = "gsi1pk"
    range_key       = "gsi1sk"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI2"
    hash_key        = "gsi2pk"
    range_key       = "gsi2sk"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI3"
    hash_key        = "gsi3pk"
    range_key       = "gsi3sk"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI4"
    hash_key        = "gsi4pk"
    range_key       = "gsi4sk"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI5"
    hash_key        = "gsi5pk"
    range_key       = "gsi5sk"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  lifecycle {
    prevent_destroy = true
  }
}
