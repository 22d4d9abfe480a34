topic_arn = "arn:aws:sns:eu-west-1:111122223333:alarms"
