"""Child processes: started in a group of their own, heard with limits, ended with all they started."""
