"""`accelerate launch` without what `accelerate config` may have left on the node; --config_file names a file as ever."""
import accelerate.commands.launch as launch

launch.default_config_file = ""
launch.main()
