#SBATCH --tim=1
#MUSTER -J 'x
true