"""Creating and removing a table on AWS: the CloudFormation stack and the IAM policies."""
