#MUSTER --gpus-per-task=2 -n4 --retry-on=1,2 --notify=end,fail
true
