names=a
