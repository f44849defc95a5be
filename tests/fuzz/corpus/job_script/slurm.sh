#!/bin/bash
#SBATCH -J 'my job' -N2 --gres=gpu:h100:4 --array=0-9%2
#SBATCH --dependency=afterok:1:2,afterany:3 --begin=now+1h
#MUSTER --time=1-00:00:00 -q high --env=A="b c" --tag=k=v # words
#MUSTER -n 4 --mount=/a:/b --image=x --topo=node:must --signal=USR1@60

srun python train.py
